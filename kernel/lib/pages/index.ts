/** Files of a folder as pages of the web, with security headers. Nothing outside the folder, and nothing hidden in it, is ever read. */
export { type PageAnswer, PageFolder, type PageOptions } from './page-folder.ts'
