/** The key that seals entries, out of the environment. */

/** @returns undefined without a name. @throws Error naming the variable that is not set. */
export function keyFrom(variable: string | undefined, env: Readonly<Record<string, string | undefined>>): Uint8Array | undefined {
  if (variable === undefined) return undefined
  const text = env[variable]
  if (text === undefined || text === '') {
    throw new Error(`cannot seal the audit log with the key in "${variable}": the environment variable is ${text === '' ? 'empty' : 'not set'}; set it`)
  }
  return Buffer.from(text)
}
