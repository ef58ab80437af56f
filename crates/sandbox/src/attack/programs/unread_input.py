held("leaves its standard input unread")
