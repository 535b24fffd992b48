// The same behaviour without the addon: every test of udp.test.ts again.
import './no-addon'
import './udp.test'
