// A reporter for node:test: the process ends with status 1 at the first test that fails.
export default async function* failFast(source) {
  for await (const { type, data } of source) if (type === 'test:fail' && data.todo === undefined) process.exit(1)
  yield ''
}
