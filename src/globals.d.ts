/** the version of package.json, put in by the build */
declare const __VERSION__: string
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
