/** Names as DuckDB compares them. */

/**
 * A name for comparison: only the letters of ASCII lose their case, as in DuckDB. JavaScript's own folding would take U+212A (the sign of the kelvin) for
 * a `k`, and so find a name where DuckDB finds none and goes on to look for a file.
 */
export function foldName(name: string): string {
  return /[A-Z]/.test(name) ? name.replace(/[A-Z]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 32)) : name
}
