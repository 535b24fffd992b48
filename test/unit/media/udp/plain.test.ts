// The same behaviour without the addon: every test of udp.test.ts and udp-request.test.ts again.
import './no-addon'
import './udp.test'
import './udp-request.test'
