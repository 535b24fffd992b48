/** the version of package.json, inserted by the build */
declare const __VERSION__: string
/** UNIX ms of the build: a clock before it is wrong */
declare const __BUILT_AT__: number
/** true in dist/os-node.js, which loads the self-test from the file next to it */
declare const __SELF_TEST_FILE__: boolean
declare module '*.wasm' {
  const packed: string
  export default packed
}
declare module '*.html' {
  const text: string
  export default text
}
declare module '*.css' {
  const text: string
  export default text
}
/** page-script and page-style */
declare module 'page-*' {
  const text: string
  export default text
}
/** Brotli and base64, made by the build; see services/test-plugin/pack.mjs */
declare module 'self-test-*' {
  const packed: string
  export default packed
}
/** Brotli and base64 of u32 length, the script of the SQL worker, the wasm of sql.js */
declare module 'sql-worker' {
  const packed: string
  export default packed
}
/** The addon for each platform with a compiler in the build; see src/native/embedded-addon.ts */
declare module 'native-addons' {
  const addons: Readonly<Record<string, { sha256: string; packed: string }>>
  export default addons
}
/** `import()` in the bundle: the launcher's own, because V8 bytecode cannot use it. */
declare const __importModule: ((url: string) => Promise<unknown>) | undefined
