declare module 'sql.js/dist/sql-wasm.js' {
  import init from 'sql.js'
  export default init
}
