// A tenant with the TypeScript SDK. Takes a JSON object on standard input: the key `do` names one of the actions below.
// Writes one JSON value.
import { readFileSync } from "node:fs";
import https from "node:https";
import { Secp256k1HdWallet } from "@cosmjs/amino";
import { DirectSecp256k1HdWallet } from "@cosmjs/proto-signing";
import * as sdk from "@akashnetwork/chain-sdk";
import { GroupSpec } from "@akashnetwork/chain-sdk/private-types/akash.v1beta4";
import WebSocket from "ws";

// SDL texts by name → the manifest as the SDK sends it, its hash and the group specs as they go on chain (hex; null if
// the SDK cannot encode them), or the errors.
async function manifests({ sdls }) {
  const found = {};
  for (const [name, text] of Object.entries(sdls)) {
    try {
      const result = sdk.generateManifest(sdk.yaml([text]));
      if (!result.ok) {
        found[name] = { errors: result.value.map((each) => each.message) };
        continue;
      }
      const { groups, groupSpecs } = result.value;
      const version = Buffer.from(await sdk.generateManifestVersion(groups)).toString("hex");
      found[name] = { manifest: sdk.manifestToSortedJSON(groups), version, groups: encoded(groupSpecs) };
    } catch (error) {
      found[name] = { errors: [String(error.message)] };
    }
  }
  return found;
}

function encoded(groupSpecs) {
  try {
    return groupSpecs.map((each) => Buffer.from(GroupSpec.encode(each).finish()).toString("hex"));
  } catch {
    return null;
  }
}

// The account of a mnemonic: its address, a certificate, and a token of each kind of wallet.
async function account({ mnemonic, now }) {
  const wallet = await Secp256k1HdWallet.fromMnemonic(mnemonic, { prefix: "akash" });
  const direct = await DirectSecp256k1HdWallet.fromMnemonic(mnemonic, { prefix: "akash" });
  const [{ address, pubkey }] = await wallet.getAccounts();
  const claims = { iss: address, iat: now - 10, nbf: now - 10, exp: now + 3600, version: "v1", leases: { access: "full" } };
  const pem = await sdk.certificateManager.generatePEM(address);
  const token = await new sdk.JwtTokenManager(wallet).generateToken(claims);
  return { address, pubkey: Buffer.from(pubkey).toString("hex"), direct: (await direct.getAccounts())[0].address, token, ...pem };
}

// The requests in order, each {method, path, body, token, certificate}: {cert, privateKey} of `account`.
async function requests({ port, ca, requests }) {
  const found = [];
  for (const each of requests) found.push(await request(port, ca, each));
  return found;
}

function request(port, ca, { method, path, body, token, certificate }) {
  const options = {
    host: "127.0.0.1", port, method, path, ca, agent: false,
    checkServerIdentity: () => undefined,
    headers: token ? { Authorization: `Bearer ${token}` } : {},
    ...(certificate ? { cert: certificate.cert, key: certificate.privateKey } : {}),
  };
  return new Promise((resolve, reject) => {
    const sent = https.request(options, (answer) => {
      let text = "";
      answer.on("data", (data) => (text += data));
      answer.on("end", () => resolve({ status: answer.statusCode, body: text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

// Opens a WebSocket, sends the frames (hex), and collects what comes until the end or until `count` frames.
function stream({ port, ca, path, token, send = [], count }) {
  const socket = new WebSocket(`wss://127.0.0.1:${port}${path}`, {
    ca, checkServerIdentity: () => undefined, headers: { Authorization: `Bearer ${token}` },
  });
  const frames = [];
  return new Promise((resolve, reject) => {
    socket.on("open", () => send.forEach((each) => socket.send(Buffer.from(each, "hex"))));
    socket.on("message", (data, binary) => {
      frames.push(binary ? data.toString("hex") : data.toString());
      if (frames.length === count) socket.close();
    });
    socket.on("close", (code) => resolve({ frames, code }));
    socket.on("error", reject);
  });
}

// ProviderRPC over gRPC, with a certificate or without one.
async function grpc({ port, certificate }) {
  const authentication = certificate && { type: "mtls", cert: certificate.cert, key: certificate.privateKey };
  const client = sdk.createProviderSDK({ baseUrl: `https://127.0.0.1:${port}`, ...(authentication ? { authentication } : {}) });
  const status = await client.akash.provider.v1.getStatus();
  const stop = new AbortController();
  const streamed = [];
  for await (const each of await client.akash.provider.v1.streamStatus({}, { signal: stop.signal })) {
    streamed.push(plain(each.cluster));
    break;
  }
  stop.abort();
  return { cluster: plain(status.cluster), hostnames: status.publicHostnames, streamed };
}

function plain(value) {
  return JSON.parse(JSON.stringify(value, (_, each) => (typeof each === "bigint" ? each.toString() : each)));
}

const actions = { manifests, account, requests, stream, grpc };
const asked = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(await actions[asked.do](asked)), () => process.exit(0));
