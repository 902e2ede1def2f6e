module kleader.test/bench/command

go 1.26.0
