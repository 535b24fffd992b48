// The tests of net/weather in the rig, whose kernel delays and reorders packets; a quarter: two media, those of the commit.
import { allMedia, type Medium } from '../lib/media-paths'
import { QUARTER, TURN } from '../lib/random'
import { inTheRig } from '../lib/rig'
import { weatherTests } from '../lib/weather-tests'

const PAIRS: readonly (readonly Medium[])[] = [
  ['UDP', 'QUIC'],
  ['TCP', 'MQTT'],
]
const media = QUARTER ? PAIRS[TURN % 2]! : allMedia

inTheRig(() => weatherTests(media, { delayMs: 50, jitterMs: 20 }), { memory: 1536, seconds: 1200 })
