"""HEAD: the response to GET without its body, as probes and link checkers request it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Lets every address that responds to GET respond to HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a HEAD request on as GET, and send the status and the headers of its response."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        is_over = False

        async def without_body(message: Message) -> None:
            nonlocal is_over
            if message["type"] != "http.response.body":
                await send(message)
            elif not is_over:
                # A body without an end, as that of /changes, ends here too.
                is_over = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receive, without_body)
