/** Texts: names that are near, characters that a terminal may print, the mark before a text. */
export { withoutBom } from './bom.ts'
export { didYouMean } from './nearest.ts'
export { printable } from './printable.ts'
