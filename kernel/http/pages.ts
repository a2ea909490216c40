/** The routes of a folder of pages. */
import type { PageFolder } from '../lib/pages/index.ts'
import type { Action, HttpHandler, HttpRoutes } from '../plugin.ts'

/** What is at "/" itself is the kernel's. */
const PATH = /^(?:\/[A-Za-z0-9][\w.~-]*)+$/

/** @throws Error for a bad path. */
export function addPages(routes: HttpRoutes, path: string, folder: PageFolder, action: Action | undefined): void {
  if (!PATH.test(path)) throw new Error(`cannot serve pages at "${path}": a path is "/" and a name, such as "/console", without "/" at its end`)
  const depth = path.split('/').length
  const handler: HttpHandler = async (request, reply) => {
    const { status, headers, body } = await folder.answer(request.raw.url ?? '', depth, request.headers['if-none-match'])
    return reply.code(status).headers(headers).send(body)
  }
  const options = { schema: { hide: true }, config: action === undefined ? {} : { action } }
  routes.get(path, options, handler)
  routes.get(`${path}/*`, options, handler)
}
