/** Failures in the catalog's shape: `{error: {message, type, code}}`, where the code is the status. */
import { type ErrorKind, publicText, SvcError } from 'svcdb/lib/errors'

const TYPES: Record<number, string> = {
  401: 'NotAuthenticatedException',
  403: 'NotAuthorizedException',
  405: 'UnsupportedOperationException',
  409: 'AlreadyExistsException',
  422: 'ValidationException',
  429: 'TooManyRequestsException',
}

interface CatalogAnswer {
  status: number
  headers: Record<string, string>
  body: { error: { message: string; type: string; code: number } }
}

/** @param notFound the type of what is not there: a namespace, unless a path is meant. */
export function answerOf(error: SvcError, notFound = 'NoSuchNamespaceException'): CatalogAnswer {
  const { http, retryAfter }: ErrorKind = error.kind
  const headers: Record<string, string> = {}
  if (retryAfter !== undefined) headers['retry-after'] = String(retryAfter)
  if (http === 401) headers['www-authenticate'] = 'Bearer'
  const type = http >= 500 ? 'ServiceException' : http === 404 ? notFound : (TYPES[http] ?? 'BadRequestException')
  return { status: http, headers: { ...headers, ...error.headers }, body: { error: { message: publicText(error), type, code: http } } }
}

/** One text for a namespace that is not there and for one that is not the caller's, so that nobody learns which it is. */
export function noSuchNamespace(name: string): SvcError {
  const shown = JSON.stringify(name.slice(0, 64))
  return new SvcError('NOT_FOUND', `cannot find namespace ${shown}: there is none that the credential may see; GET /v1/namespaces lists those that it may`)
}
