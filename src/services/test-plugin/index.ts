// The plugin test_plugin: the test runner of the specification, as a service. The build makes dist/os-node-selftest.js of this module.
import type { PluginDefinition } from '../contract'
import { type TestParts, TestRunner } from './runner'

export { inventoryOf } from './audit/inventory'
export { type TestParts, TestRunner } from './runner'
export { runStressChild } from './stress/child'

/** What the program passes in: its own file, the library, and the inventory to test. */
export const testPlugin = (parts: TestParts): PluginDefinition => ({
  name: 'test_plugin',
  summary: 'self-test, stress and audit',
  create: host => new TestRunner(parts, host),
})
