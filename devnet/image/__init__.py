"""The container image of the provider and its operators, made without a builder and without a base image.

`python -m devnet.image FOLDER` writes an OCI layout. `Containerfile` says the same for a builder; a test compares both.
Nothing is imported here, because a builder runs `devnet.image.locked` before anything is installed.
"""
