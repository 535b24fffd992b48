/** the version of package.json, put in by the build */
declare const __VERSION__: string
/** UNIX ms of the build: no clock before it is right */
declare const __BUILT_AT__: number
declare module '*.wasm' {
  const deflated: string
  export default deflated
}
declare module '*.html' {
  const text: string
  export default text
}
declare module '*.css' {
  const text: string
  export default text
}
declare module 'page-script' {
  const text: string
  export default text
}
declare module 'page-style' {
  const text: string
  export default text
}
