// The table of routes. Each has its role, its write rule, and schemas of its input and answer; a handler returns the
// body of a 200 or throws an OsError. Tests walk this table (S2).
import type { Route } from '../route'
import { CONFIG } from './config'
import { CONTROL } from './control'
import { DATA } from './data'
import { DISPLAY } from './display'
import { LOGIN, USERS } from './login'
import { OSCLI } from './oscli'
import { DASHBOARD, PAGES } from './pages'
import { SYSTEM } from './system'

export type { Call, Route, ServiceFacts } from '../route'

export const ROUTES: readonly Route[] = [
  ...PAGES,
  ...SYSTEM,
  ...LOGIN,
  DASHBOARD,
  ...CONFIG,
  ...CONTROL,
  ...USERS,
  ...OSCLI,
  ...DATA,
  ...DISPLAY,
]
