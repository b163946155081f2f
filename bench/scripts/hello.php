<?php
header('Content-Type: text/plain');
header('Content-Length: 13');
echo 'Hello, world!';
