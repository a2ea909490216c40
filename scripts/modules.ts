/** Which modules load which, read from their text. */
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

const uncommented = (source: string): string => source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')

const STATIC = [/\b(?:import|export)\s[^'"`;]*?\bfrom\s+'([^']+)'/g, /^\s*import\s+'([^']+)'/gm]
const DYNAMIC = [/\bimport\(\s*'([^']+)'/g]
const BY_URL = [/\b(?:new URL|moduleUrl)\(\s*'(\.[^']+)'/g]

const found = (source: string, patterns: readonly RegExp[]): string[] => {
  const code = uncommented(source)
  return patterns.flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1]))
}

/** What a module imports: static, dynamic and by URL, as written. */
export const importsOf = (source: string): string[] => found(source, [...STATIC, ...DYNAMIC, ...BY_URL])
/** Those that it loads before it runs. */
export const staticImportsOf = (source: string): string[] => found(source, STATIC)
/** Those that it, or a thread or process that it starts, may load later. */
export const urlsOf = (source: string): string[] => found(source, BY_URL)

/** Without the imports and exports of types only, which are not there at run time. */
export const withoutTypes = (source: string): string =>
  source
    .replace(/\b(?:import|export) type\s[^'"]*?\bfrom\s+'[^']+'/g, '')
    .replace(/\bimport\s*\{\s*type [^,}]+(?:,\s*type [^,}]+)*,?\s*\}\s*from\s+'[^']+'/g, '')

/** The file that an import names; undefined for what is not of this package. */
export function targetOf(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return posix.normalize(posix.join(posix.dirname(from), specifier))
  const library = /^svcdb\/lib\/([a-z\d-]+)$/.exec(specifier)?.[1]
  if (library !== undefined) return `kernel/lib/${library}/index.ts`
  const others: Record<string, string> = {
    svcdb: 'kernel/index.ts',
    'svcdb/agents': 'kernel/agents/index.ts',
    'svcdb/agents/testkit': 'plugins/agent_plane/testkit/index.ts',
    'svcdb/testkit': 'kernel/testkit/index.ts',
    'svcdb/conformance': 'storage/conformance/index.ts',
  }
  return others[specifier]
}

/**
 * All modules that are loaded when these are, each with the one that loads it.
 * @param entries paths relative to the root.
 * @param imports what of a module counts.
 */
export function reachable(root: string, entries: readonly string[], imports: (source: string) => string[]): Map<string, string> {
  const loadedBy = new Map(entries.map((entry) => [entry, '']))
  for (const file of loadedBy.keys()) {
    for (const specifier of imports(readFileSync(join(root, file), 'utf8'))) {
      const target = targetOf(file, specifier)
      if (target?.endsWith('.ts') && !loadedBy.has(target)) loadedBy.set(target, file)
    }
  }
  return loadedBy
}
