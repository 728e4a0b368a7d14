"""The application that gunicorn serves."""

from app.core import observability
from app.core.context import make_context
from app.site.factory import create_server_app

_context = make_context()
observability.configure(_context.settings)
application = create_server_app(_context)
