// Gateways upstream by every medium over one bad cable of this machine's kernel; rig/weather adds delay and reordering.
import { allMedia } from '../lib/media-paths'
import { inItsOwnNetwork } from '../lib/own-network'
import { weatherTests } from '../lib/weather-tests'

inItsOwnNetwork(() => weatherTests(allMedia))
