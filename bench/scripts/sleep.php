<?php // Servers look whether it exists; the application that answers is the responder.
