/** Parts of the set of policies that counts, each made ready when a call first needs it. */

/** Parts that are kept; the one that was not used for longest goes first. */
const MAX = 256
/** Of the text of a part; for more the whole set serves. */
const LONGEST = 4096

export class Slices {
  private readonly keep: (name: string, text: string) => void
  /** Names by which policies are in it. Cedar frees nothing but what another takes the name of: there are never more than MOST names. */
  private readonly names = new Map<string, string>()
  private readonly free: string[]

  /** @param keep has Cedar keep a text under a name. */
  constructor(prefix: string, keep: (name: string, text: string) => void) {
    this.keep = keep
    this.free = Array.from({ length: MAX }, (_, i) => `${prefix}-part-${i}`)
  }

  /** @returns the name of the part with these policies; undefined where it is too long. */
  nameOf(indices: readonly number[], texts: readonly string[]): string | undefined {
    const key = indices.join()
    let name = this.names.get(key)
    if (name === undefined) {
      const text = indices.map((i) => texts[i]).join('\n')
      if (text.length > LONGEST) return undefined
      if (this.free.length === 0) this.release(this.names.keys().next().value as string)
      name = this.free.at(-1) as string
      this.keep(name, text)
      this.free.pop()
    } else this.names.delete(key)
    this.names.set(key, name)
    return name
  }

  clear(): void {
    for (const [key, name] of [...this.names]) {
      this.release(key)
      this.keep(name, '')
    }
  }

  private release(key: string): void {
    this.free.push(this.names.get(key) as string)
    this.names.delete(key)
  }
}
