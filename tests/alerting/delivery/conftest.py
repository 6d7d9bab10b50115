"""Fixtures of deliveries: services whose addresses are fixed."""

from tests.support.channel_servers import web as web
