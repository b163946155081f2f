<?php
declare(strict_types=1);

require __DIR__ . '/../page.php';

page('Clock', function () { ?>
<p class="clock"><time id="time" aria-live="off"><?= gmdate('H:i:s') ?></time> UTC</p>
<p id="state" role="status">This page needs JavaScript to go on from here.</p>
<dl>
<dt>Events</dt><dd id="count">0</dd>
<dt>Process of PHP-FPM</dt><dd id="process"><?= getmypid() ?></dd>
</dl>
<p>The events are those of <a href="/events.php"><code>events.php</code></a>, which ends after a minute and gives its
process back. The browser asks again by itself and says which event it has seen last; so they go on counting, in another
process perhaps.</p>
<p class="buttons"><button type="button" id="toggle" hidden>Stop</button></p>
<script src="/clock.js" defer></script>
<?php });
