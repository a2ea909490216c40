/** From the target of a request to the names of a file below a folder. Pure. */

/** Of the absolute form of a target, RFC 9112, section 3.2.2. */
const ORIGIN = /^https?:\/\/[^/?#]*/i
/**
 * Hidden names, `.` and `..`; what separates names, begins a drive or a stream, or is a wildcard on some system; what Windows would drop from a name's
 * end; its short names and its devices. The same on every system, so that a folder that is served here is served the same there.
 */
const REFUSED = /^\.|[\p{Cc}\p{Cs}\\/:*?"<>|]|[. ]$|~\d|^(?:con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(?:\.|$)/iu

export function isServed(name: string): boolean {
  return name !== '' && !REFUSED.test(name)
}

export interface PagePath {
  /** Names of the folders and the file, decoded; empty for the folder that is served. */
  names: readonly string[]
  /** Whether the path ends in "/", as those of folders do. */
  slash: boolean
  /** The last name of the path as it was sent, below the folder or not. */
  last: string
  /** From the "?" on. */
  query: string
}

/**
 * Decodes each name once, and on its own: an encoded slash makes no second name of it.
 * @param depth how many parts of the path lead to the folder, the empty one before the first "/" included: 2 for "/console".
 * @returns undefined where no file could have this path.
 */
export function pagePath(target: string, depth: number): PagePath | undefined {
  const [, path, query] = /^([^?#]*)(\?[^#]*)?/.exec(target.replace(ORIGIN, '')) as unknown as [string, string, string | undefined]
  const parts = path.split('/')
  const last = parts.at(-1) as string
  const below = parts.slice(depth)
  const slash = below.at(-1) === ''
  if (slash) below.pop()
  const names: string[] = []
  for (const part of below) {
    const name = decoded(part)
    if (name === undefined || !isServed(name)) return undefined
    names.push(name)
  }
  return { names, slash, last, query: query ?? '' }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
