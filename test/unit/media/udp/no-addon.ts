// Imported first by tests that run other tests again without the addon.
process.env.OS_NODE_NO_ADDON = '1'
