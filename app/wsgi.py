"""The application that gunicorn serves."""

from app import observability
from app.context import make_context
from app.factory import create_server_app

_context = make_context()
observability.configure(_context.settings)
application = create_server_app(_context)
