// Gateways upstream by every medium over one bad cable of this machine's kernel; rig/weather adds delay and reordering.
import { inItsOwnNetwork } from '../lib/own-network'
import { weatherTests } from '../lib/weather-tests'
import { allMedia } from '../lib/media-paths'

inItsOwnNetwork(() => weatherTests(allMedia))
