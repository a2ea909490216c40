/** What Node.js does not say of a module that it cannot load. */
import { findPackageJSON } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

/**
 * What to do about a module of an operator's own that does not load for where it lies, to be put behind the error's text; empty where Node.js says enough.
 * `npm init -y` writes "type": "commonjs".
 */
export function loadHint(cause: string, file: string): string {
  if (/Cannot use import statement outside a module|Unexpected token 'export'/.test(cause)) {
    const manifest = /\.c[jt]s$/.test(file) ? undefined : findPackageJSON(pathToFileURL(file))
    return `; ${file} is read as CommonJS: ${manifest === undefined ? '' : `set "type": "module" in ${manifest}, or `}name the file .mts or .mjs`
  }
  if (/Cannot find package 'svcdb'/.test(cause)) return '; install svcdb in its folder or in one above, and start the svc of that folder (npx svc)'
  return ''
}

/**
 * Where a fault of code was found, ` at <file>:<line>`, to be put behind the error's text: that of a SyntaxError, a TypeError and the like has no place.
 * Empty for other errors, whose texts are written for their readers, and where the stack names no file.
 */
export function placeOf(error: unknown): string {
  if (!(error instanceof SyntaxError || error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError)) return ''
  // What cannot be parsed stands on the first line of the stack, by its path or its URL; else the first frame that is not Node.js's.
  const [, place, line] = /^((?:file:\/)?\/.+):(\d+)\n/.exec(error.stack ?? '') ?? /(file:\/\/.+?):(\d+):\d+/.exec(error.stack ?? '') ?? []
  if (place === undefined) return ''
  return ` at ${place.startsWith('file:') ? fileURLToPath(place) : place}:${line}`
}
