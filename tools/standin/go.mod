module lessor.example/tools/standin

go 1.26
