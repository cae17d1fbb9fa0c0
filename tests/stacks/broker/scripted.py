"""A plugin that does as it is told: `python scripted.py [MANNER] ENGINE`.

It speaks the same protocol as the real one. What it is to do stands in field 9 of a request, one word and an argument;
its answer is field 9 of a message. MANNER makes it a bad one from the start.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

ENGINE = sys.argv[-1]
MANNER = sys.argv[1] if len(sys.argv) > 2 else ""
if MANNER not in {"dies", "garbage", "endless", "silent", "deaf", "rude"}:  # those start at once
    import grpc
    import grpc.aio

ballast: list[bytes] = []
configured: list[bytes] = []


def told(request: bytes) -> tuple[str, str]:
    """The word and its argument; the field is the last one and begins with a mark that nothing else has."""
    word, _, argument = request.rpartition(b"\x02do:")[2].decode(errors="replace").partition(" ")
    return (word, argument) if b"\x02do:" in request else ("", "")


async def act(method: str, request: bytes, context) -> bytes:
    word, argument = told(request)
    match word:
        case "sleep":
            await asyncio.sleep(float(argument))
        case "wait":
            while not Path(argument).exists():
                await asyncio.sleep(0.02)
            Path(argument + ".done").touch()
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)  # noqa: ASYNC251  the loop is to stand still
        case "grow":
            ballast.append(os.urandom(int(argument)))
        case "fail":
            trailing = (("grpc-status-details-bin", b"\x00\xffdetails"), ("reason", "because"))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, argument, trailing)
        case "metadata":
            return repr(sorted(context.invocation_metadata())).encode()
        case "log":
            async with grpc.aio.insecure_channel(ENGINE) as channel:
                return await channel.unary_unary("/pulumirpc.Engine/Log")(argument.encode()) + b"logged"  # type: ignore[call-arg]
        case "unknown-kind" if not Path(argument).exists():
            Path(argument).touch()
            text = b"Found API Group, but it did not contain a schema for Pool"
            return b"\x12" + bytes([len(text)]) + text
        case "echo":
            return request
        case "files":
            (Path(os.environ["TMPDIR"]) / "kubeconfig-copy").write_text("secret")
            return os.environ["TMPDIR"].encode()
    return f"{os.getpid()} {len(configured)} {configured[-1].hex() if configured else ''}".encode()


async def configure(request: bytes, context) -> bytes:
    if MANNER == "refuses":
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such context")
    if MANNER == "slow":
        await asyncio.sleep(1)
    configured.append(request)
    return b"configured by %d" % os.getpid()


async def read(request: bytes, context) -> bytes:
    if MANNER.startswith("unreachable:") and not Path(MANNER.partition(":")[2]).exists():
        await context.abort(grpc.StatusCode.UNKNOWN, "failed to read resource state due to unreachable cluster")
    return await act("Read", request, context)


async def stream(request: bytes, context):
    for number in range(3):
        yield b"%d" % number


class Handler:
    def service(self, handler_call_details):
        method = handler_call_details.method.rpartition("/")[2]
        if method == "Handshake":
            return None
        if method == "List":
            return grpc.unary_stream_rpc_method_handler(stream)
        if method == "Configure":
            return grpc.unary_unary_rpc_method_handler(configure)
        if method == "Read":
            return grpc.unary_unary_rpc_method_handler(read)

        async def perform(request: bytes, context) -> bytes:
            return await act(method, request, context)

        return grpc.unary_unary_rpc_method_handler(perform)


async def serve() -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 100 << 20)])
    server.add_generic_rpc_handlers((Handler(),))  # type: ignore[arg-type]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


def main() -> None:
    match MANNER:
        case "dies":
            sys.exit(3)
        case "garbage":
            print("Hello, I am a plugin", flush=True)
        case "endless":
            print("x" * (1 << 20), flush=True)
        case "silent":
            time.sleep(3600)
        case "deaf" | "rude":
            with socket.create_server(("127.0.0.1", 0)) as listening:
                print(listening.getsockname()[1], flush=True)
                while True:
                    connection, _ = listening.accept()
                    if MANNER == "rude":
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                        connection.close()
                    else:
                        ballast.append(connection)  # type: ignore[arg-type]
        case _:
            asyncio.run(serve())


if __name__ == "__main__":
    main()
