// The files of sealed windows by their names.
import type { MemFiles } from '../log/memfiles'
import { DIR } from './sealedworld'

export const names = (files: MemFiles): string[] => files.list(DIR).sort()
export const path = (name: string): string => `${DIR}/${name}`
