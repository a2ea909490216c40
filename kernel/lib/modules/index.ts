/** Modules by URL: those that are loaded beside the one that names them, the copies of this package that a thread has loaded, and how own modules are found. */
export { HOME, otherCopies } from './copies.ts'
export { loadHint, placeOf } from './load-hint.ts'
export { moduleUrl } from './module-url.ts'
export { findOwnModules } from './own-modules.ts'
