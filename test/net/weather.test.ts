// Gateways upstream by every medium over one bad cable of this machine's kernel; rig/roads adds delay and reordering.
import { inItsOwnNetwork } from '../lib/own-network'
import { roadTests } from '../lib/weather-tests'
import { allMedia } from '../lib/media-paths'

inItsOwnNetwork(() => roadTests(allMedia))
