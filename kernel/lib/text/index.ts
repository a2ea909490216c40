/** Texts: names that are near, characters that a terminal may print, passwords in URLs, the mark before a text, bytes that should be one. */
export { withoutBom } from './bom.ts'
export { didYouMean } from './nearest.ts'
export { withoutPasswords } from './passwords.ts'
export { printable } from './printable.ts'
export { utf8Of } from './utf8.ts'
