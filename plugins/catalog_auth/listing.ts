/** Which namespaces a caller sees, and one page of them after another. */
import { type CallContext, type NamespaceDefinition, type NamespaceDirectory, namespaceProblem } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

const DEFAULT_PAGE = 100
/** A larger pageSize gets this many: the parameter is an upper bound. */
const LARGEST_PAGE = 1000
/** In front of the name within a page token: another form of token gets another mark. */
const MARK = '1.'
const LONGEST_TOKEN = 128

type Authority = Pick<CallContext, 'namespaces' | 'admin'>

/** @param multiTenancy a credential without namespaces then has authority over none, but for an admin's. */
export function maySee({ namespaces, admin }: Authority, name: string, multiTenancy: boolean): boolean {
  return namespaces.length > 0 ? namespaces.includes(name) : admin || !multiTenancy
}

/** One page of the names, in the order of their code units. A name that came or went between two pages moves no other one. */
export function visiblePage(
  { namespaces, admin }: Authority,
  directory: NamespaceDirectory,
  multiTenancy: boolean,
  { pageSize, after = '' }: Pick<ListRequest, 'pageSize' | 'after'>,
): Page {
  const own = [...new Set(namespaces)].filter((name) => name > after && directory.get(name) !== undefined).sort()
  const seesAll = namespaces.length === 0 && (admin || !multiTenancy)
  return pageOf(seesAll ? directory.names(after, pageSize + 1) : own, pageSize)
}

interface ListRequest {
  parent: string | undefined
  pageSize: number
  /** The last name of the page before. */
  after: string | undefined
}

/** @throws BAD_REQUEST naming the parameter. */
export function parseList(query: Record<string, unknown>): ListRequest {
  const size = textOf(query, 'pageSize')
  const token = textOf(query, 'pageToken')
  return {
    // An empty one is none: older clients send it for the top level.
    parent: textOf(query, 'parent') || undefined,
    pageSize: size === undefined ? DEFAULT_PAGE : sizeOf(size),
    // The first request of a client that reads page by page has an empty one.
    after: token === undefined || token === '' ? undefined : nameInToken(token),
  }
}

export interface Page {
  namespaces: string[][]
  'next-page-token': string | null
}

/** @param names those left, in order. */
export function pageOf(names: readonly string[], pageSize: number): Page {
  const page = names.slice(0, pageSize)
  return { namespaces: page.map((name) => [name]), 'next-page-token': names.length > page.length ? tokenOfName(page[page.length - 1]) : null }
}

/** Description, owner and quota; all values are strings, as the catalog's clients want them. */
export function propertiesOf({ description, owner, quota }: NamespaceDefinition): Record<string, string> {
  const bounds = Object.entries(quota).map(([name, value]): [string, string] => [name, String(value)])
  return { description, owner, ...Object.fromEntries(bounds) }
}

function textOf(query: Record<string, unknown>, name: string): string | undefined {
  const value = query[name]
  if (value === undefined || typeof value === 'string') return value
  throw new SvcError('BAD_REQUEST', `cannot read parameter "${name}": it is there more than once; give it once`)
}

function sizeOf(text: string): number {
  if (!/^[0-9]{1,15}$/.test(text) || Number(text) === 0)
    throw new SvcError(
      'BAD_REQUEST',
      `cannot use pageSize ${JSON.stringify(text.slice(0, 32))}: it is no whole number above 0; leave it out for ${DEFAULT_PAGE}`,
    )
  return Math.min(Number(text), LARGEST_PAGE)
}

function tokenOfName(name: string): string {
  return Buffer.from(MARK + name).toString('base64url')
}

function nameInToken(token: string): string {
  const text = token.length > LONGEST_TOKEN ? '' : Buffer.from(token, 'base64url').toString()
  const name = text.slice(MARK.length)
  if (!text.startsWith(MARK) || namespaceProblem(name) !== undefined || tokenOfName(name) !== token)
    throw new SvcError('BAD_REQUEST', 'cannot use the pageToken: this server has not made it; begin again without one')
  return name
}
