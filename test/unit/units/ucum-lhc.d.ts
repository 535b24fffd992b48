/** The parts of the oracle that the tests use; the package has no types. */
declare module '@lhncbc/ucum-lhc' {
  interface OracleUnit {
    csCode_: string
    magnitude_: number
    dim_: { dimVec_: number[] | null } | null
    moleExp_: number
    cnv_: string | null
    isMetric_: boolean
    isSpecial_: boolean
    isArbitrary_: boolean
    source_: string
  }
  export class UcumLhcUtils {
    static getInstance(): UcumLhcUtils
    getSpecifiedUnit(code: string): { status: string; unit: OracleUnit | null }
  }
  export const UnitTables: { getInstance(): { allUnitsByDef(): OracleUnit[] } }
}
