// The same behaviour on machines without the addon, by the package serialport: every test of port.test.ts again.
import '../../media/no-addon'
import './port.test'
