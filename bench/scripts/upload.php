<?php
$in = fopen('php://input', 'r');
for ($n = 0; !feof($in); $n += strlen(fread($in, 65536)));
header('Content-Type: text/plain');
header('Content-Length: ' . strlen($n));
echo $n;
