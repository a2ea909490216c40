import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

const OWN = new URL('../../..', import.meta.url).href
/** Of all own modules: from source they end as this one does, and compiled too. */
const EXTENSION = import.meta.url.endsWith('.ts') ? '.ts' : '.js'
const FORMAT = EXTENSION === '.ts' ? 'module-typescript' : 'module'
const FOLDERS = ['kernel/', 'plugins/', 'storage/'].map((folder) => OWN + folder)
/** Links to JavaScript (docs/decisions/050-a-start-loads-what-it-runs.md): Node.js goes by the name of what they lead to. */
const LINKS: ReadonlySet<string> = new Set(['kernel/main', 'kernel/cli/compile-cache'].map((path) => OWN + path + EXTENSION))

/** `exports` of package.json, of the repository or of what is published: `*` stands for the name of a library. */
type Exports = Readonly<Record<string, string | { readonly default: string }>>

/**
 * Has this thread find own modules by their names alone. Node.js looks for each file, the links on its way, the package it lies in and what that says of its kind: a
 * fifth of a start. What it would find is known: test/repository/own-modules.test.ts compares. All others are found as ever.
 */
export function findOwnModules(): void {
  const find = ownModules()
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith('node:')) return { url: specifier, format: 'builtin', shortCircuit: true }
      const url = find(specifier, context.parentURL)
      return url === undefined ? next(specifier, context) : { url, format: FORMAT, shortCircuit: true }
    },
  })
}

/** @returns a function from what a module imports, and its URL, to the URL of what that is: undefined when Node.js is to find it. */
export function ownModules(): (specifier: string, parentURL: string | undefined) => string | undefined {
  const { exports } = JSON.parse(readFileSync(new URL('package.json', OWN), 'utf8')) as { exports: Exports }
  const named = new Map<string, string | undefined>()
  return (specifier, parentURL) => {
    if (parentURL === undefined || !FOLDERS.some((folder) => parentURL.startsWith(folder))) return undefined
    let url: string | undefined
    if (specifier.startsWith('.')) {
      if (specifier.endsWith(EXTENSION)) url = new URL(specifier, parentURL).href
    } else if (specifier.startsWith('svcdb')) {
      if (!named.has(specifier)) named.set(specifier, exported(exports, specifier))
      url = named.get(specifier)
    }
    return url === undefined || LINKS.has(url) ? undefined : url
  }
}

function exported(exports: Exports, specifier: string): string | undefined {
  const library = /^svcdb\/lib\/([^/]+)$/.exec(specifier)?.[1]
  const target = exports[library === undefined ? specifier.replace(/^svcdb/, '.') : './lib/*']
  const path = typeof target === 'object' ? target.default : target
  return path?.endsWith(EXTENSION) ? new URL(path.replace('*', library ?? ''), OWN).href : undefined
}
