// The plugin test_plugin: the test runner of the specification, as a service.
import type { PluginDefinition } from '../contract'
import { type TestParts, TestRunner } from './runner'

export { type TestParts, TestRunner } from './runner'

/** What the program hands in: its own file, the library, what there is to be tested. */
export const testPlugin = (parts: TestParts): PluginDefinition => ({
  name: 'test_plugin',
  summary: 'self-test, stress and audit',
  create: host => new TestRunner(parts, host),
})
