/** Texts: names that are near, characters that a terminal may print, passwords in URLs, the mark before a text. */
export { withoutBom } from './bom.ts'
export { didYouMean } from './nearest.ts'
export { withoutPasswords } from './passwords.ts'
export { printable } from './printable.ts'
