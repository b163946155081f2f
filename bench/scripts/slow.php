<?php
usleep(50000);
header('Content-Type: text/plain');
header('Content-Length: 13');
echo 'Hello, world!';
