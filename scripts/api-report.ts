/**
 * docs/reference/api.md: every name that others can import, with its declaration, the first sentence of its docstring, and its mark. It is read from the declarations that the
 * compiler writes, so that inferred types are in it: a change of any of them changes the page, which CI compares.
 */
import { execFile } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { promisify } from 'node:util'
import { API_VERSION } from '../kernel/version.ts'

const ROOT = join(import.meta.dirname, '..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

type Mark = '@public' | '@experimental'

/** Libraries whose names will stay; those of the others may change with a minor version. */
const STABLE = new Set(['errors', 'modules'])

interface Statement {
  doc: string
  text: string
}

interface Entry {
  /** What is written in an import. */
  name: string
  /** Its declarations, relative to the root. */
  file: string
  /** Of names whose docstring has none. */
  mark: Mark
}

export interface ApiName {
  name: string
  mark: Mark
  /** First sentence of the docstring. */
  summary: string
  declaration: string
}

/** Splits declarations at the top level. Strings, comments and brackets are the only syntax that it knows. */
export function statementsOf(source: string): Statement[] {
  const found: Statement[] = []
  let depth = 0
  let start = 0
  let doc = ''
  const token = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|[{}()[\];]/g
  for (const { 0: what, index } of source.matchAll(token)) {
    if (depth === 0 && source.slice(start, index).trim() === '' && /^\/[*/]/.test(what)) {
      doc = what.startsWith('/**') ? what : ''
      start = index + what.length
    }
    if (/^[{([]$/.test(what)) depth++
    if (/^[})\]]$/.test(what)) depth--
    const block =
      what === '}' && /^\s*(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:interface|class|namespace)\b/.test(source.slice(start, start + 200))
    if (depth > 0 || !(what === ';' || block)) continue
    const text = source.slice(start, index + 1).trim()
    if (text !== ';') found.push({ doc, text })
    start = index + 1
    doc = ''
  }
  return found
}

const nameOf = (text: string): string | undefined =>
  /^(?:export )?(?:declare )?(?:abstract )?(?:function|interface|type|const|let|class|enum) ([\w$]+)/.exec(text)?.[1]

/** Without comments, private members and what says nothing here. */
function shortened(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^(?:export )?(?:declare )?/, '')
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^\s*(?:private\b|#private)/.test(line))
    .map((line) => line.replace(/^ +/, (spaces) => ' '.repeat(spaces.length / 2)).trimEnd())
    .join('\n')
    .replace(/;$/, '')
}

function summaryOf(doc: string): string {
  const text = doc
    .replace(/^\/\*\*|\*\/$/g, '')
    .replace(/^\s*\*/gm, '')
    .replace(/\s+/g, ' ')
    .replace(/@(?:public|experimental)\b/g, '')
    .trim()
  return /^(.*?[.:!?])(?: (?=[A-Z@`])|$)/.exec(text)?.[1] ?? text.replace(/ @.*/, '')
}

/** The names that a module gives. @param read gives a module's declarations, by its path. */
export function namesOf(file: string, mark: Mark, read: (file: string) => string): ApiName[] {
  const found: ApiName[] = []
  const own = statementsOf(read(file))
  const describe = (name: string, { doc, text }: Statement): ApiName => {
    const given = /@(?:public|experimental)\b/.exec(doc)?.[0] as Mark | undefined
    return { name, mark: given ?? mark, summary: summaryOf(doc), declaration: text }
  }
  /** All overloads of a function are one. */
  const overloads = (statements: readonly Statement[], name: string): Statement | undefined => {
    const all = statements.filter(({ text }) => nameOf(text) === name)
    return all.length === 0 ? undefined : { doc: all[0].doc, text: all.map(({ text }) => shortened(text)).join('\n') }
  }
  for (const { text } of own) {
    const [, list, all, from] = /^export (?:type )?(?:\{([\s\S]*)\}|(\*))(?: from ['"]([^'"]+)['"])?;$/.exec(text) ?? []
    const target = from?.startsWith('.') ? posix.join(posix.dirname(file), from).replace(/\.(?:ts|js)$/, '.d.ts') : undefined
    if (all !== undefined && target !== undefined) found.push(...namesOf(target, mark, read))
    for (const item of (list ?? '').split(',')) {
      const [original, alias = original] = item
        .trim()
        .replace(/^type /, '')
        .split(' as ')
      if (original === '') continue
      const given = target === undefined ? undefined : namesOf(target, mark, read).find(({ name }) => name === original)
      const local = from === undefined ? overloads(own, original) : undefined
      if (given !== undefined) found.push({ ...given, name: alias })
      else if (local !== undefined) found.push(describe(alias, local))
      else if (target === undefined) found.push({ name: alias, mark, summary: '', declaration: `${alias} of ${from ?? file}` })
      else throw new Error(`cannot report "${original}" of ${file}: ${target} does not declare it`)
    }
    const name = text.startsWith('export ') ? nameOf(text) : undefined
    if (name !== undefined && !found.some((one) => one.name === name)) found.push(describe(name, overloads(own, name) as Statement))
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1))
}

function entries(): Entry[] {
  const libraries = globSync('kernel/lib/*/index.ts', { cwd: ROOT })
    .map((file) => file.split('/')[2])
    .sort()
  return [
    { name: 'svcdb', file: 'kernel/index.d.ts', mark: '@public' },
    { name: 'svcdb/agents', file: 'kernel/agents/index.d.ts', mark: '@experimental' },
    { name: 'svcdb/agents/testkit', file: 'plugins/agent_plane/testkit/index.d.ts', mark: '@experimental' },
    { name: 'svcdb/testkit', file: 'kernel/testkit/index.d.ts', mark: '@public' },
    { name: 'svcdb/conformance', file: 'storage/conformance/index.d.ts', mark: '@experimental' },
    ...libraries.map(
      (name): Entry => ({ name: `svcdb/lib/${name}`, file: `kernel/lib/${name}/index.d.ts`, mark: STABLE.has(name) ? '@public' : '@experimental' }),
    ),
  ]
}

function sectionOf({ name }: Entry, names: readonly ApiName[]): string {
  const lines = names.map(({ mark, summary, declaration }) => `// ${mark}${summary === '' ? '' : ` ${summary}`}\n${declaration}\n`)
  return `## ${name}\n\n\`\`\`ts\n${lines.join('\n')}\`\`\`\n`
}

const HEAD = `# The public API

What plugins and storage engines can import, version ${API_VERSION} (\`API_VERSION\`; \`definePlugin({ api: '${API_VERSION}' })\` demands it). \`@public\` names change with a major version only, and are added to with a
minor one; \`@experimental\` ones may change with a minor version. Nothing else of the package is to be imported.

Written by \`npm run docs\` from the declarations; CI fails when they differ. [How to write a plugin](../guides/write-a-plugin.md) explains what is here.
`

export async function apiReport(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-api-'))
  try {
    const all = entries()
    const project = join(folder, 'tsconfig.json')
    const compilerOptions = { rootDir: ROOT, outDir: folder, declaration: true, emitDeclarationOnly: true, typeRoots: [join(ROOT, 'node_modules/@types')] }
    const files = all.map(({ file }) => join(ROOT, file.replace(/\.d\.ts$/, '.ts')))
    writeFileSync(project, JSON.stringify({ extends: join(ROOT, 'tsconfig.build.json'), compilerOptions, files }))
    await promisify(execFile)(process.execPath, [TSC, '-p', project])
    const read = (file: string): string => readFileSync(join(folder, file), 'utf8')
    return [HEAD, ...all.map((entry) => sectionOf(entry, namesOf(entry.file, entry.mark, read)))].join('\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
