"""The CA's certificate for the public hostname, ordered by ACME (RFC 8555) with challenges over HTTP."""
