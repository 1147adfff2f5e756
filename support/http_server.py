"""A real HTTP server in this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI


@asynccontextmanager
async def listening(app: FastAPI, door: socket.socket) -> AsyncIterator[None]:
    """A real server for the application, at this socket, for as long as this context lasts."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve([door]))
    try:
        async with asyncio.timeout(30):
            while not server.started:
                await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await serving
