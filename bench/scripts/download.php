<?php
$left = (int) $_GET['bytes'];
header('Content-Type: application/octet-stream');
header("Content-Length: $left");
$piece = str_repeat('0123456789abcdef', 4096);
for (; $left > 0; $left -= strlen($piece)) {
    echo $left < strlen($piece) ? substr($piece, 0, $left) : $piece;
}
