// The library as the vectors see it: the classes that were handed in, and what the program exports.
import * as program from './program'
import type { Lib } from './vectors/common'

export const libraryOf = (classes: Pick<Lib, 'Engine' | 'Fusion'>): Lib => ({ ...program, ...classes })
