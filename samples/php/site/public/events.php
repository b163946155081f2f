<?php
// Server-sent events: the time, every second for a minute. A process of PHP-FPM is ours for as long as that, so there is
// an end to it, and another client's turn.

declare(strict_types=1);

header('Content-Type: text/event-stream');
header('Cache-Control: no-store');

while (ob_get_level() > 0) {
    ob_end_flush(); // flush() does not see what waits in PHP's own buffers
}

$id = max(0, (int) ($_SERVER['HTTP_LAST_EVENT_ID'] ?? 0));
$until = time() + 60;

echo "retry: 1000\n\n"; // the header goes out with the first output, and not with a flush() before it
do {
    $id++;
    echo "id: $id\ndata: ", json_encode(['time' => gmdate('H:i:s'), 'process' => getmypid()]), "\n\n";
    flush(); // PHP ends the script here when the client has left
    usleep((int) (1e6 * (1 - fmod(microtime(true), 1)))); // the next second
} while (time() < $until);
