<?php
// Server-sent events: the time, every second for a minute. They occupy a process of PHP-FPM, so
// they end, and another client gets its turn.

declare(strict_types=1);

header('Content-Type: text/event-stream');
header('Cache-Control: no-store');

while (ob_get_level() > 0) {
    ob_end_flush(); // flush() does not send what is in PHP's own buffers
}

$id = max(0, (int) ($_SERVER['HTTP_LAST_EVENT_ID'] ?? 0));
$until = time() + 60;

echo "retry: 1000\n\n"; // flush() alone would not send the header; the first output does
do {
    $id++;
    echo "id: $id\ndata: ", json_encode(['time' => gmdate('H:i:s'), 'process' => getmypid()]), "\n\n";
    flush(); // if the client has left, PHP ends the script here
    usleep((int) (1e6 * (1 - fmod(microtime(true), 1)))); // until the next second
} while (time() < $until);
